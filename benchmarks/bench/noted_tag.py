"""The least that a tag of Django's templates can be that reads a flag."""

from __future__ import annotations

from django import template

from .plain_sites import noted

register = template.Library()
register.simple_tag(noted)
