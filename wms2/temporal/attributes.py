"""Search attributes: by what the Web UI and the listings find requests."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

STATUS = SearchAttributeKey.for_keyword("WmsStatus")
REQUESTOR = SearchAttributeKey.for_keyword("WmsRequestor")
CAMPAIGN = SearchAttributeKey.for_keyword("WmsCampaign")
SUBMIT_HOST = SearchAttributeKey.for_keyword("WmsSubmitHost")
HELD_REASON = SearchAttributeKey.for_keyword("WmsHeldReason")
PRIORITY = SearchAttributeKey.for_int("WmsPriority")
ROUND = SearchAttributeKey.for_int("WmsRound")

KEYWORDS = (STATUS, REQUESTOR, CAMPAIGN, SUBMIT_HOST, HELD_REASON)
INTEGERS = (PRIORITY, ROUND)
