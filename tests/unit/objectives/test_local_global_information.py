"""IS-BERT's objective and pooling against loops over tokens and sentences."""

from __future__ import annotations

import pytest
import torch

from references.is_bert import convolutions_loop, information_loop
from sentrep import SentRepModule
from sentrep.encoder import ConvolutionalPooling
from sentrep.objectives import LocalGlobalInformation
from support import assert_same_gradients, text_batch, tiny_encoder, toy_sentences


@pytest.mark.parametrize("convolutions", [True, False])
def test_value_and_gradient_equal_the_loops(convolutions: bool) -> None:
    pooling = ConvolutionalPooling(windows=[1, 3], filters=4)
    encoder = tiny_encoder(dropout=0.0, pooling="mean", modules=[pooling] if convolutions else []).double()
    module = SentRepModule(encoder, [LocalGlobalInformation()]).double()
    batch = text_batch(encoder, toy_sentences(5))
    views = module.views_of(batch)
    loss = module.objectives.terms["localglobalinformation"](views, batch)

    lengths = batch.anchor.attention_mask.sum(1).tolist()
    states = [views.anchor_output.token_states[i, :n] for i, n in enumerate(lengths)]
    vectors = views.anchor
    if convolutions:
        states = [convolutions_loop(x, [(layer.weight, layer.bias) for layer in pooling.layers]) for x in states]
        vectors = torch.stack([x.mean(0) for x in states])
        torch.testing.assert_close(views.anchor, vectors)
    weight = module.objectives.terms["localglobalinformation"].score.weight
    expected = information_loop(states, vectors, weight)
    inputs = [*encoder.sentence_modules.parameters(), weight, encoder.backbone.get_input_embeddings().weight]
    assert_same_gradients(loss, expected, inputs, rtol=1e-7, atol=1e-7)
