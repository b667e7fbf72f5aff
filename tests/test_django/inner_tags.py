"""A tag library of a site, whose tag has a template of its own with a flag in it."""

from django import template

register = template.Library()


@register.inclusion_tag("inner")
def inner_tag() -> dict[str, object]:
    """Render the inner template."""
    return {}
