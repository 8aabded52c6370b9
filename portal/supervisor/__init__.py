"""`make run`: all parts of Carrel under one roof, with one log. Knows no Django, to start fast."""
