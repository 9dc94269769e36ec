"""Long documents that are cut once: the chunks are those that the index holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from app.knowledge.cuts import Cuts
from ingest.document import TABLE_SUMMARY, Document

WORDS = st.sampled_from(
    ["tea ", "a", "x" * 700, "One. ", "\n", "\n\n", "  ", "ends here. ", "東京。"]
)
TEXTS = st.lists(WORDS, max_size=400).map("".join)
TYPES = st.sampled_from(["document", TABLE_SUMMARY])


@effort(deadline=None)
@given(st.lists(st.builds(Document, st.just("d"), TEXTS, st.just("faq"), TYPES), max_size=4))
def test_a_document_has_the_same_chunks_whenever_it_is_cut(batch: list[Document]) -> None:
    for cuts in (Cuts(), Cuts(most_chunks=5)):
        for document in batch * 2:
            assert cuts.of(document, document.fingerprint()) == document.passages()


def test_a_text_that_says_the_same_again_and_again_has_all_of_its_chunks() -> None:
    document = Document("d", "same " * 2_000, "faq")
    cuts = Cuts()
    assert cuts.of(document, "f") == cuts.of(document, "f") == document.passages()
    assert len(document.passages()) > 5
