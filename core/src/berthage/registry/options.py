"""Options of solvers and formats: checked, converted, and refused with a helpful answer."""

from __future__ import annotations

import dataclasses
import difflib
import enum
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

from berthage.errors import OptionError, PluginError

if TYPE_CHECKING:
    from berthage.registry.descriptions import Info

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


class _Bad(ValueError):
    """The value does not fit; the message says what would."""


@dataclass(frozen=True, slots=True)
class OptionField:
    """One option as listings show it.

    Attributes:
        name: The key.
        type: The type in words, e.g. ``"int"`` or ``"highs | cbc"``.
        default: The default as a JSON value (enums by value, paths as text).
        help: One sentence.
        minimum: Least value allowed, or None.
        maximum: Greatest value allowed, or None.
    """

    name: str
    type: str
    default: Any
    help: str = ""
    minimum: float | None = None
    maximum: float | None = None


def build_options(info: Info, values: Mapping[str, Any] | object | None = None) -> Any:
    """Make the options object of a solver or format from what the caller gave.

    Args:
        info: The description whose ``options`` dataclass is wanted.
        values: A mapping of option names to values (text is converted, as the command line needs),
            an instance of the dataclass (checked again), or None for the defaults.

    Returns:
        An instance of ``info.options``; None when the description has no options.

    Raises:
        OptionError: An option is unknown, of the wrong type or out of range.
        PluginError: The plugin annotates an option with a type that options cannot have.
    """
    if values is None:
        values = {}
    cls = info.options
    if cls is None:
        return _no_options(info, values)
    if isinstance(values, cls):
        values = {f.name: getattr(values, f.name) for f in _fields(cls)}
    if not isinstance(values, Mapping):
        raise OptionError(
            f"options of {info.name!r} must be a mapping or a {cls.__name__}, not {type(values).__name__}"
        )
    known = [f.name for f in _fields(cls)]
    converted = {}
    for key, value in values.items():
        name = str(key).replace("-", "_")
        if name not in known:
            raise OptionError(_unknown_option(info, str(key), known))
        if name in converted:
            raise OptionError(f"option {name!r} of {info.name!r} is given twice")
        converted[name] = _convert(info, cls, name, value)
    try:
        return cls(**converted)
    except OptionError:
        raise
    except (TypeError, ValueError) as error:
        raise OptionError(f"options of {info.name!r}: {error}") from error


def describe_options(info: Info) -> tuple[OptionField, ...]:
    """The options of a description, in the order they are declared."""
    cls = info.options
    if cls is None:
        return ()
    hints = _hints(info, cls)
    out = []
    for field in _fields(cls):
        meta = field.metadata
        choices = meta.get("choices")
        out.append(
            OptionField(
                name=field.name,
                type=" | ".join(map(str, choices)) if choices else _type_words(hints[field.name]),
                default=_plain(_default(field)),
                help=str(meta.get("help", "")),
                minimum=meta.get("minimum"),
                maximum=meta.get("maximum"),
            )
        )
    return tuple(out)


def _no_options(info: Info, values: Mapping[str, Any] | object) -> None:
    if isinstance(values, Mapping):
        if not values:
            return
        name = next(iter(values))
        raise OptionError(f"{info.name!r} has no options, but {name!r} was given")
    raise OptionError(f"{info.name!r} has no options, but a {type(values).__name__} was given")


def _fields(cls: type) -> list[dataclasses.Field[Any]]:
    return [f for f in dataclasses.fields(cls) if f.init]


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    assert field.default_factory is not dataclasses.MISSING  # descriptions insist on a default
    return field.default_factory()


def _hints(info: Info, cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls)
    except NameError as error:
        raise PluginError(
            f"options of {info.name!r}: {error}; import what annotations of {cls.__name__} name at run time"
        ) from error


def _unknown_option(info: Info, key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=3)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"it has: {', '.join(known) or 'none'}"
    return f"{info.name!r} has no option {key!r}; {hint}"


def _convert(info: Info, cls: type, name: str, value: Any) -> Any:
    field = next(f for f in _fields(cls) if f.name == name)
    try:
        converted = _coerce(_hints(info, cls)[name], value)
        _check_range(field.metadata, converted)
    except _Bad as error:
        shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."
        raise OptionError(f"option {name!r} of {info.name!r} must be {error}, not {shown}") from None
    except TypeError as error:
        raise PluginError(f"option {name!r} of {info.name!r}: {error}") from error
    return converted


def _check_range(meta: Mapping[str, Any], value: Any) -> None:
    choices = meta.get("choices")
    if choices is not None and value is not None and value not in tuple(choices):
        raise _Bad(f"one of {', '.join(map(str, choices))}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = meta.get("minimum"), meta.get("maximum")
        if low is not None and value < low:
            raise _Bad(f"at least {low}")
        if high is not None and value > high:
            raise _Bad(f"at most {high}")


def _coerce(kind: Any, value: Any) -> Any:
    """Fit ``value`` to the annotation ``kind``; _Bad when it does not, TypeError for odd annotations."""
    origin = typing.get_origin(kind)
    if origin is Union or origin is types.UnionType:
        return _coerce_union(typing.get_args(kind), value)
    if origin is Literal:
        return _coerce_literal(typing.get_args(kind), value)
    if origin is tuple:
        return _coerce_tuple(typing.get_args(kind), value)
    if kind is Any:
        return value
    if kind is bool:
        return _coerce_bool(value)
    if kind is int:
        return _coerce_int(value)
    if kind is float:
        return _coerce_float(value)
    if kind is str:
        return _expect(value, str, "text")
    if kind is Path:
        return Path(value) if isinstance(value, str) else _expect(value, Path, "a path")
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _coerce_enum(kind, value)
    raise TypeError(
        f"an option cannot be annotated {kind!r}; use bool, int, float, str, Path, Literal, an enum, "
        "a tuple of one of these, or one of these with None"
    )


def _expect(value: Any, kind: type, words: str) -> Any:
    if not isinstance(value, kind):
        raise _Bad(words)
    return value


def _coerce_union(kinds: tuple[Any, ...], value: Any) -> Any:
    if type(None) in kinds:
        if value is None or (isinstance(value, str) and value.lower() in {"none", "null"}):
            return None
        kinds = tuple(k for k in kinds if k is not type(None))
    reasons = []
    # Text goes to str only when nothing narrower takes it: "3" for int | str is 3.
    for kind in sorted(kinds, key=lambda k: k is str and isinstance(value, str)):
        try:
            return _coerce(kind, value)
        except _Bad as error:
            reasons.append(str(error))
    raise _Bad(" or ".join(reasons))


def _coerce_literal(choices: tuple[Any, ...], value: Any) -> Any:
    for choice in choices:
        if type(choice) is type(value) and choice == value:
            return choice
    for choice in choices:
        if isinstance(value, str) and str(choice) == value:
            return choice
    raise _Bad(f"one of {', '.join(map(str, choices))}")


def _coerce_tuple(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if len(kinds) != 2 or kinds[1] is not Ellipsis:
        raise TypeError("a tuple option is annotated tuple[T, ...]")
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")] if value else []
    if not isinstance(value, list | tuple):
        raise _Bad("a list")
    return tuple(_coerce(kinds[0], item) for item in value)


def _coerce_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    raise _Bad("true or false")


def _coerce_int(value: Any) -> int:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise _Bad("a whole number") from None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise _Bad("a whole number")
    return int(value)


def _coerce_float(value: Any) -> float:
    if isinstance(value, bool):
        raise _Bad("a number")
    if isinstance(value, str) or hasattr(value, "__float__") or hasattr(value, "__index__"):
        try:
            number = float(value)
        except (ValueError, TypeError, OverflowError):
            raise _Bad("a number") from None
        if math.isnan(number):
            raise _Bad("a number")
        return number
    raise _Bad("a number")


def _coerce_enum(kind: type[enum.Enum], value: Any) -> enum.Enum:
    if isinstance(value, kind):
        return value
    for member in kind:
        if value == member.value or (isinstance(value, str) and value in {str(member.value), member.name}):
            return member
    raise _Bad(f"one of {', '.join(str(m.value) for m in kind)}")


def _type_words(kind: Any) -> str:
    origin = typing.get_origin(kind)
    if origin is Union or origin is types.UnionType:
        return " | ".join(_type_words(k) for k in typing.get_args(kind))
    if origin is Literal:
        return " | ".join(map(str, typing.get_args(kind)))
    if origin is tuple:
        return f"list of {_type_words(typing.get_args(kind)[0])}"
    if kind is type(None):
        return "none"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return " | ".join(str(m.value) for m in kind)
    return str(getattr(kind, "__name__", kind)).lower()


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value
