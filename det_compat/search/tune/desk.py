"""Where the processes of a trial hand in their reports."""

from __future__ import annotations

import asyncio

from det_compat.search.records import Report


class Desk:
    """An actor that takes a report, and lets the process wait until the search has judged it."""

    def __init__(self) -> None:
        self._reports: asyncio.Queue[Report] = asyncio.Queue()
        self._judged: asyncio.Queue[bool] = asyncio.Queue()

    async def hand_in(self, report: Report) -> bool:
        """Hand in a report, and wait for the judgement: whether training goes on."""
        await self._reports.put(report)
        return await self._judged.get()

    async def next(self) -> Report:
        """The next report; returns when there is one."""
        return await self._reports.get()

    async def judge(self, goes_on: bool) -> None:
        """Judge the report that ``next`` has returned."""
        await self._judged.put(goes_on)
