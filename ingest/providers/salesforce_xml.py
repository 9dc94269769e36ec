"""Salesforce's outbound messages: SOAP with up to 100 notifications. Touches nothing.

A document type is refused whatever it says, so no entity is ever declared, let alone expanded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import XMLParser

from ingest.providers.base import Ack, UnreadableDelivery
from ingest.providers.salesforce_objects import long_id

_OUTBOUND = "{http://soap.sforce.com/2005/09/outbound}"
_NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"
_TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"

MOST_DEEP = 50  # an outbound message is seven

ACK = Ack(
    200,
    "text/xml",
    b'<?xml version="1.0" encoding="UTF-8"?>'
    b'<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/">'
    b'<soapenv:Body><notificationsResponse xmlns="http://soap.sforce.com/2005/09/outbound">'
    b"<Ack>true</Ack></notificationsResponse></soapenv:Body></soapenv:Envelope>",
)


class _Shallow(TreeBuilder):
    """Builds no tree that is deeper than calls: looking through it would break there."""

    _depth = 0

    def start(self, tag: str, attrs: dict[str, str], /) -> Element:
        self._depth += 1
        if self._depth > MOST_DEEP:
            raise UnreadableDelivery(f"the XML is nested more than {MOST_DEEP} deep; refused")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)


def organization(xml: bytes) -> str:
    """Return the id of the organization that sends, "" if it is not there."""
    return long_id(_text(_notifications(xml).find(f"{_OUTBOUND}OrganizationId")))


def bodies(xml: bytes) -> list[dict[str, Any]]:
    """Return each notification as JSON: ids, the object's type, and its fields as texts."""
    message = _notifications(xml)
    common = {
        "OrganizationId": long_id(_text(message.find(f"{_OUTBOUND}OrganizationId"))),
        "ActionId": _text(message.find(f"{_OUTBOUND}ActionId")),
    }
    return [{**common, **_notification(one)} for one in message.findall(f"{_OUTBOUND}Notification")]


def _notifications(xml: bytes) -> Element:
    # In UTF-8 whatever it claims: that is what Salesforce writes, and no other can hide a DTD.
    parser = XMLParser(target=_Shallow(), encoding="utf-8", forbid_dtd=True)
    try:
        parser.feed(xml)
        root: Element = parser.close()
    except DefusedXmlException as error:
        raise UnreadableDelivery("the XML has a document type or entities; refused") from error
    except (ParseError, ValueError) as error:
        raise UnreadableDelivery(f"expected an outbound message of Salesforce: {error}") from error
    found = next(root.iter(f"{_OUTBOUND}notifications"), None)
    if found is None:
        raise UnreadableDelivery("expected an outbound message of Salesforce: no notifications")
    return found


def _notification(one: Element) -> dict[str, Any]:
    record = one.find(f"{_OUTBOUND}sObject")
    fields: dict[str, str] = {}
    for name, text in () if record is None else _fields(record):
        fields[name] = f"{fields[name]}, {text}" if fields.get(name) else text
    return {
        "NotificationId": _text(one.find(f"{_OUTBOUND}Id")),
        "type": "" if record is None else record.get(_TYPE, "").rpartition(":")[2],
        "fields": fields,
    }


def _fields(record: Element) -> Iterator[tuple[str, str]]:
    for field in record:
        yield field.tag.rpartition("}")[2], _text(field)


def _text(element: Element | None) -> str:
    if element is None or element.get(_NIL) in ("true", "1"):
        return ""
    return "".join(element.itertext()).strip()
