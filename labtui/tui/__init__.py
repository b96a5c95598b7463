"""All that knows Textual."""
