"""Values that the demo's third parties react to, as the sandboxes of payment providers do.

They make a planned failure a matter of data: the same order fails the same way whatever else goes on.
"""

from __future__ import annotations

from typing import Final

#: The SMS gateway doesn't know this number: 422, every time.
PHONE_UNKNOWN: Final = "+12025550000"
#: The SMS gateway answers 503 to the first two calls of a request, then delivers.
PHONE_FLAKY: Final = "+12025550001"
#: The mail server has no such mailbox: 550, every time.
MAIL_UNKNOWN: Final = "nobody@refused.example"
#: The mail server asks to come back later: 451 to the first two attempts of a message, then accepts.
MAIL_GREYLISTED: Final = "buyer@greylisted.example"
#: The partner answers 500 for records with this prefix, every time.
RECORD_BROKEN: Final = "broken-"
#: The partner answers 503 to the first two calls of a request for records with this prefix, then delivers.
RECORD_FLAKY: Final = "flaky-"
#: How many calls fail before a flaky value recovers. Jobs have at least this many retries.
FLAKY_CALLS: Final = 2
#: A product that is never restocked.
SKU_SOLD_OUT: Final = "sold-out"
