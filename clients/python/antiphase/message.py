"""What all messages have in common: from JSON and to JSON."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, ClassVar, Mapping, TypeVar

M = TypeVar("M", bound="Message")


class Message:
    """A message of the service. Its fields, and what they are without a value, are those of the generated classes."""

    NESTED: ClassVar[dict[str, str]] = {}
    """The fields that hold messages, and which."""

    @classmethod
    def from_json(cls: type[M], json: Mapping[str, Any]) -> M:
        """Reads an answer. Fields that this version does not know are ignored, as the service may be newer."""
        if not isinstance(json, Mapping):
            raise TypeError(f"{cls.__name__}: {json!r:.100} is no object")
        known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        values = {name: cls._read(name, value) for name, value in json.items() if name in known and value is not None}
        return cls(**values)

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        nested = cls.NESTED.get(name)
        if nested is None:
            return value
        # The generated classes stand in one module, in which a message may name one that comes after it.
        kind = getattr(sys.modules[cls.__module__], nested)
        return [kind.from_json(one) for one in value] if isinstance(value, list) else kind.from_json(value)

    def to_json(self) -> dict[str, Any]:
        """The message as a request sends it: without the fields that have their defaults."""
        out: dict[str, Any] = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
            if value != default:
                out[field.name] = _written(value)
        return out


def _written(value: Any) -> Any:
    if isinstance(value, Message):
        return value.to_json()
    if isinstance(value, (list, tuple)):
        return [_written(one) for one in value]
    return value
