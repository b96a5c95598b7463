"""What can be run: experiment.toml and guide.md, read into objects. Reading executes nothing."""
