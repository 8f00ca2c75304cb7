"""The forms in which the server answers, as the header `Accept` names them."""

from __future__ import annotations

JSON = "application/json"
LINES = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
EVENTS = "text/event-stream"
HTML = "text/html"
FORM = "application/x-www-form-urlencoded"  # as curl -d says of any body
ROW_FORMS = (JSON, LINES, ARROW)
