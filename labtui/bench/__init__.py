"""What experiments stand on. The only part of labtui that imports torch; `report` needs no torch."""
