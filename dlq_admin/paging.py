"""Lists over tables that hold millions of rows: nothing here counts or skips more than a screenful of pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.http import HttpRequest
from django.utils.functional import cached_property

if TYPE_CHECKING:
    _Paginator = Paginator[Any]
else:
    _Paginator = Paginator

#: Rows that a paged list counts and offers; filters and search lead to the rest.
MOST: Final = 10_000


class BoundedPaginator(_Paginator):
    """Counts to :data:`MOST` and no further."""

    @cached_property
    def count(self) -> int:
        """Rows of the list, at most :data:`MOST`."""
        rows: Any = self.object_list
        # Slicing first: PostgreSQL then stops counting at the limit.
        return int(rows.order_by()[:MOST].count())


class BoundedChangeList(ChangeList):
    """A paged list that says when there is more than it pages through."""

    @property
    def cut_at(self) -> int | None:
        """The number of rows paged through where there may be more, else ``None``."""
        return MOST if self.result_count >= MOST else None


class OlderChangeList(ChangeList):
    """A list by falling primary key whose next page begins below the last row shown: page one thousand costs what page one does."""

    older: str | None = None
    newest: str | None = None

    def get_results(self, request: HttpRequest) -> None:
        """Read one page, and one row more to know whether there are older ones."""
        rows = list(self.queryset[: self.list_per_page + 1])
        shown = rows[: self.list_per_page]
        if len(rows) > len(shown):
            self.older = self.get_query_string({f"{self.lookup_opts.pk.attname}__lt": shown[-1].pk}, remove=["p"])
        if f"{self.lookup_opts.pk.attname}__lt" in self.params:
            self.newest = self.get_query_string(remove=[f"{self.lookup_opts.pk.attname}__lt", "p"])
        self.result_list = shown
        self.result_count = len(shown)
        self.full_result_count = None
        self.show_full_result_count = False
        self.show_admin_actions = True
        self.can_show_all = False
        self.multi_page = False
        self.paginator = Paginator(shown, self.list_per_page)
