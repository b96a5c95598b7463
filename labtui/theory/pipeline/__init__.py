"""Pipeline schedules: orders of work, the time they take, how they look. Knows neither torch nor a terminal."""
