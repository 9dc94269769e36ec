"""What must not be kept, embedded or logged, found and masked. Touches nothing."""

from app.redact.base import ALWAYS, PERSONAL, Detector, Finding, Kind
from app.redact.masking import mask_secrets
from app.redact.redactor import Cleaned, Redactor

__all__ = [
    "ALWAYS",
    "PERSONAL",
    "Cleaned",
    "Detector",
    "Finding",
    "Kind",
    "Redactor",
    "mask_secrets",
]
