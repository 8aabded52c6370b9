"""Template filters and tags for Carrel's pages: units, ages, states."""

from django import template

register = template.Library()
