"""What the hardware and the host say. Nothing here knows runs or screens."""
