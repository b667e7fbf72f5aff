"""The URLs of a test that brings none of its own."""

urlpatterns: list[object] = []
