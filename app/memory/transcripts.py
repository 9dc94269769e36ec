"""Old conversations as they come in: their times made whole, their ids made up. Touches nothing."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import MAXYEAR, UTC, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from app.errors import InvalidRequest
from app.text.zones import zone

EARLIEST_YEAR = 1970
_HALF_HOURS = {
    timedelta(hours=3, minutes=30): "Asia/Tehran",
    timedelta(hours=4, minutes=30): "Asia/Kabul",
    timedelta(hours=5, minutes=30): "Asia/Kolkata",
    timedelta(hours=5, minutes=45): "Asia/Kathmandu",
    timedelta(hours=6, minutes=30): "Asia/Yangon",
    timedelta(hours=9, minutes=30): "Australia/Darwin",
}
_BY_CONTENT = uuid.UUID("b1c2f0a4-6a0e-4d0d-9f2c-0d3f6a6c5a27")


@dataclass(frozen=True, slots=True)
class Line:
    """One utterance. `speaker` is a person's name; a time without an offset is a wall clock's."""

    role: Literal["user", "assistant"]
    content: str
    created_at: datetime
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """A whole conversation. Without a session id it gets one that its content decides.

    timezone: the user's, an IANA name.
    """

    lines: tuple[Line, ...]
    session_id: str | None = None
    timezone: str | None = None


def settle(
    transcripts: Sequence[Transcript], user_id: str, timezone: str, now: datetime
) -> list[tuple[str, Transcript]]:
    """Return each transcript, its times in UTC, with its session id.

    Times may stand still, but not go back, and not lie after `now`; one without an offset is read
    in the transcript's time zone, else in `timezone`. Raises `InvalidRequest`, which names the
    conversation and the message.
    """
    found = []
    for number, transcript in enumerate(transcripts):
        local = zone(transcript.timezone or timezone)
        lines: list[Line] = []
        for at, line in enumerate(transcript.lines):
            param = f"conversations.{number}.messages.{at}.created_at"
            last = lines[-1].created_at if lines else None
            moment = _moment(line.created_at, local, last, param)
            if moment > now:
                raise InvalidRequest(
                    f"{param} is in the future: {moment.isoformat()}; it is {now.isoformat()}",
                    param=param,
                )
            if last is not None and moment < last:
                raise InvalidRequest(
                    f"{param} is {moment.isoformat()}, before the message above it at "
                    f"{last.isoformat()}: messages are expected in the order they were written",
                    param=param,
                )
            lines.append(replace(line, created_at=moment))
        named = transcript.timezone or _named_by_offset(transcript.lines[0].created_at)
        settled = replace(transcript, lines=tuple(lines), timezone=named)
        found.append((transcript.session_id or _id_by_content(user_id, settled), settled))
    return found


def _moment(given: datetime, local: ZoneInfo, last: datetime | None, param: str) -> datetime:
    """Return a time in UTC; one without an offset is read in `local`."""
    if not EARLIEST_YEAR < given.year < MAXYEAR:  # in UTC it may be a day off
        raise InvalidRequest(
            f"{param} is in the year {given.year}: expected is one after {EARLIEST_YEAR}",
            param=param,
        )
    if given.utcoffset() is not None:
        return given.astimezone(UTC)
    there = given.replace(tzinfo=local)
    moment = there.astimezone(UTC)
    if last is not None and moment < last:  # the hour that comes twice when summer time ends
        return max(moment, there.replace(fold=1).astimezone(UTC))
    return moment


def _named_by_offset(moment: datetime) -> str | None:
    """Return a zone that has a time's offset: it tells which day "yesterday" was.

    UTC tells nothing: times are written in it everywhere.
    """
    offset = moment.utcoffset()
    if not offset:
        return None
    hours, rest = divmod(offset, timedelta(hours=1))
    if not rest and -12 <= hours <= 14:
        return f"Etc/GMT{-hours:+d}"  # with the sign turned round, as POSIX has it
    return _HALF_HOURS.get(offset)


def _id_by_content(user_id: str, transcript: Transcript) -> str:
    said = [
        [line.role, line.speaker, line.content, line.created_at.isoformat()]
        for line in transcript.lines
    ]
    return uuid.uuid5(_BY_CONTENT, json.dumps([user_id, said])).hex
