"""Reads the dashboards by the schema that Grafana publishes, as classes of the package grafana-foundation-sdk, and says what does not fit.

What the classes do not know is lost when they write a dashboard again, and so is found. Values are held against the types that the
classes declare, also inside queries, options of panels and overrides.
"""

import argparse
import enum
import json
import pathlib
import sys
import types
import typing


def lost(ours, written, path):
    """Says which keys and values of ours are not in what was written again. Defaults may have joined."""
    if isinstance(ours, dict) and isinstance(written, dict):
        for key, value in ours.items():
            if key in written:
                yield from lost(value, written[key], "%s.%s" % (path, key))
            else:
                yield "%s.%s: the schema has no such key" % (path, key)
    elif isinstance(ours, list) and isinstance(written, list) and len(ours) == len(written):
        for index, (one, other) in enumerate(zip(ours, written)):
            yield from lost(one, other, "%s[%d]" % (path, index))
    elif isinstance(ours, bool) != isinstance(written, bool) or ours != written:
        yield "%s: %s becomes %s" % (path, json.dumps(ours), json.dumps(written))


class Reader:
    """The classes of one version of Grafana."""

    def __init__(self):
        from grafana_foundation_sdk.cog import encoder, plugins, runtime, variants
        from grafana_foundation_sdk.models import dashboard

        plugins.register_default_plugins()
        self.encoder, self.runtime, self.variants, self.models = encoder.JSONEncoder, runtime, variants, dashboard

    def shown(self, value):
        return json.dumps(value, cls=self.encoder)

    def written(self, value):
        return json.loads(self.shown(value))

    def read(self, cls, data, path):
        """Reads a document as a class, and says what does not fit."""
        try:
            value = cls.from_json(data)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return ["%s: it cannot be read: %r" % (path, error)]
        return [*lost(data, self.written(value), path), *self.fields(value, path)]

    def fields(self, value, path):
        if isinstance(value, self.models.Panel):
            yield from self.panel(value, path)
        for name, hint in typing.get_type_hints(type(value)).items():
            held = getattr(value, name)
            # A key that was not given has no value, and a null that was given is lost.
            if held is not None:
                yield from self.fits(held, hint, "%s.%s" % (path, name.removesuffix("_val")))

    def panel(self, panel, path):
        """What the classes of panels say and their types do not: kinds of panels and queries, and values of overrides."""
        kind = self.runtime.panelcfg_config(panel.type_val)
        if kind is None:
            yield "%s: there is no panel of type %r" % (path, panel.type_val)
            return
        for query in panel.targets or []:
            if isinstance(query, self.runtime.UnknownDataquery):
                yield "%s: a query of no known data source" % path
        for override in panel.field_config.overrides:
            for one in override.properties:
                where = "%s: override %s" % (path, one.id_val)
                key = one.id_val.removeprefix("custom.")
                custom = key != one.id_val
                if not custom:
                    yield from self.read(self.models.FieldConfig, {key: one.value}, where)
                elif kind.field_config_from_json_hook is None:
                    yield "%s: a panel of type %r has no such options" % (where, panel.type_val)
                else:
                    value = kind.field_config_from_json_hook({key: one.value})
                    yield from lost({key: one.value}, self.written(value), where)
                    yield from self.fields(value, where)

    def fits(self, value, hint, path):
        """Says where a value is not of a type."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            # The arm that a class has read the value as, or else the one that fits best.
            arms = [one for one in arguments if one is not type(None)]
            chosen = [one for one in arms if one is type(value)] or arms
            yield from min((list(self.fits(value, one, path)) for one in chosen), key=len)
        elif origin is typing.Literal:
            if not any(value == one and type(value) is type(one) for one in arguments):
                yield "%s: %s is none of %s" % (path, self.shown(value), ", ".join(map(str, arguments)))
        elif origin is list and isinstance(value, list):
            for index, one in enumerate(value):
                yield from self.fits(one, arguments[0], "%s[%d]" % (path, index))
        elif origin is dict and isinstance(value, dict):
            for key, one in value.items():
                yield from self.fits(one, arguments[1], "%s.%s" % (path, key))
        elif hasattr(value, "to_json"):
            # A class has read it. Which one it is matters where there are several, such as panels and rows.
            if hint not in (object, typing.Any) and not isinstance(value, hint):
                yield "%s: it is no %s" % (path, hint.__name__)
            yield from self.fields(value, path)
        elif hasattr(hint, "from_json") and isinstance(value, dict):
            yield from self.read(hint, value, path)
        elif isinstance(hint, type) and issubclass(hint, enum.Enum):
            if value not in [one.value for one in hint]:
                yield "%s: %s is none of %s" % (path, self.shown(value), ", ".join(str(one.value) for one in hint))
        elif hint in (float, int) and isinstance(value, int) and not isinstance(value, bool):
            return
        elif hint not in (object, typing.Any) and type(value) is not hint:
            yield "%s: %s is no %s" % (path, self.shown(value), getattr(hint, "__name__", hint))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=pathlib.Path, help="folder or wheel with grafana_foundation_sdk")
    parser.add_argument("dashboards", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.package))
    reader = Reader()
    found = []
    for path in arguments.dashboards:
        found += reader.read(reader.models.Dashboard, json.loads(path.read_text()), path.stem)
    print("\n".join(found) if found else "%d dashboards fit" % len(arguments.dashboards))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
