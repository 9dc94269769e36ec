"""What this service counts and measures, in the Prometheus text format. Touches nothing."""

from app.metrics.measured import CONTENT_TYPE as CONTENT_TYPE
from app.metrics.measured import Metrics as Metrics
from app.metrics.stored import Stored as Stored
