"""Parameter counts: the lab's four sizes, and the ten models of a published table."""

from __future__ import annotations

import pytest

from labtui.theory import models

# Narayanan et al., arXiv 2104.04473, table 1: billions of parameters, heads, width, layers. Vocabulary 51200, context
# 2048, tied embeddings.
NARAYANAN = (
    (1.7, 24, 2304, 24), (3.6, 32, 3072, 30), (7.5, 32, 4096, 36), (18.4, 48, 6144, 40), (39.1, 64, 8192, 48),
    (76.1, 80, 10240, 60), (145.6, 96, 12288, 80), (310.1, 128, 16384, 96), (529.6, 128, 20480, 105),
    (1008.0, 160, 25600, 128),
)  # fmt: skip


@pytest.mark.parametrize(("billions", "heads", "width", "layers"), NARAYANAN)
def test_published_models_have_the_printed_size(billions, heads, width, layers):
    shape = models.GptShape(layers, heads, width, context=2048, vocabulary=51200, tied=True)
    assert round(models.parameters(shape) / 1e9, 1) == billions


def test_the_labs_sizes():
    counts = {name: models.parameters(shape) for name, shape in models.SIZES.items()}
    assert counts == {"tiny": 819_968, "baby": 10_801_152, "300m": 303_507_456, "1b": 1_210_994_688}
    h = 384
    assert models.layer_parameters(models.size("baby")) == 12 * h**2 + 13 * h


def test_tied_embeddings_save_one_matrix():
    own, tied = models.size("baby", 1000), models.size("baby", 1000, tied=True)
    assert models.parameters(own) - models.parameters(tied) == 1000 * own.width


def test_what_is_no_model_is_refused():
    with pytest.raises(ValueError, match="'huge' is no size of a GPT: tiny, baby, 300m, 1b"):
        models.size("huge")
    with pytest.raises(ValueError, match="a width that its heads divide, not 10 by 3"):
        models.GptShape(1, 3, 10, 8, 8)
    with pytest.raises(ValueError, match="at least 1"):
        models.GptShape(0, 1, 8, 8, 8)


def test_memory_for_training_grows_with_parameters_and_tokens():
    shape = models.size("300m")
    alone, replica = (models.training_bytes(shape, 4, replicas=replicas) for replicas in (False, True))
    assert replica - alone == 4 * models.parameters(shape)  # the buckets
    assert models.activation_bytes(shape, 8) == 2 * models.activation_bytes(shape, 4)
    assert models.activation_bytes(shape, 4, element=2) * 2 == models.activation_bytes(shape, 4)
