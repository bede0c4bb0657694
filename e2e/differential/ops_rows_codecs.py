"""Rows for text of several encodings, labels of sequences, and sound."""
import numpy as np

from ops_make import row

ENCODINGS = ("UTF-8", "UTF-16-BE", "UTF-32-BE")


def unicode_attributes(m, *encodings):
    m.set(errors=m.pick("replace", "ignore", "strict"), **{name: m.pick(*ENCODINGS) if name == "output_encoding" else "UTF-8" for name in encodings})
    if m.chance(.3):
        m.set(replacement_char=m.pick(32, 65533, 63))


@row("UnicodeDecode UnicodeDecodeWithOffsets UnicodeTranscode")
def decode(m):
    unicode_attributes(m, "input_encoding", *(["output_encoding"] if m.op == "UnicodeTranscode" else []))
    m.flags("replace_control_characters")
    return {"input": m.any("string", high=3 if m.op == "UnicodeTranscode" else 1)}


@row("UnicodeEncode")
def encode(m):
    unicode_attributes(m, "output_encoding")
    n = m.int(0, 6)
    cuts = np.sort(m.rng.integers(0, n + 1, m.int(0, 3)))
    return {"input_values": m.ints([m.pick(65, 233, 8364, 128512, 55296, 1114112) for _ in range(n)]), "input_splits": m.ints([0, *cuts, n], "Tsplits")}


@row("UnsortedSegmentJoin")
def join(m):
    segments = m.int(1, 4)
    shape = m.shape(low=1, high=2)
    m.set(separator=m.pick("", ", "))
    return {"inputs": m.array("string", shape), "segment_ids": m.index("Tindices", m.bent(shape), segments), "num_segments": m.ints(segments, "Tnumsegments")}


@row("Fingerprint")
def fingerprint(m):
    m.constant = True  # the client has to know the method
    return {"data": m.any("T", low=1), "method": np.asarray(b"farmhash64", object)}


def frames(m):
    """Outputs of a network for a batch of sequences, and how long these are."""
    steps, batch, classes = m.int(1, 5), m.int(1, 3), m.int(2, 4)
    lengths = m.ints([m.int(1, steps) if m.chance(.95) else steps + 1 for _ in range(batch)])
    return m.array("T" if "T" in m.types else "float32", (steps, batch, classes), "plain"), m.ints(lengths)


@row("CTCGreedyDecoder CTCBeamSearchDecoder")
def decode_labels(m):
    m.flags("merge_repeated")
    if m.op == "CTCBeamSearchDecoder":
        m.set(beam_width=m.int(1, 3), top_paths=1)
    inputs, lengths = frames(m)
    return {"inputs": inputs, "sequence_length": lengths}


@row("CTCLoss")
def loss(m):
    inputs, lengths = frames(m)
    m.flags("preprocess_collapse_repeated", "ctc_merge_repeated")
    m.set(ignore_longer_outputs_than_inputs=m.chance(.8))
    batch, classes = inputs.shape[1:]
    indices = [(b, i) for b in range(batch) for i in range(m.int(1, 2))]
    return {"inputs": inputs, "labels_indices": m.ints(indices, "int64"), "labels_values": m.index("int32", len(indices), classes - 1), "sequence_length": lengths}


@row("EncodeWav")
def encode_wav(m):
    return {"audio": m.array("float32", (m.int(1, 5), m.int(1, 2)), "unit"), "sample_rate": m.ints(m.pick(8000, 44100))}


@row("DecodeWav")
def decode_wav(m):
    channels, samples = m.int(1, 2), m.int(1, 5)
    data = m.rng.integers(-2**15, 2**15, samples * channels).astype("<i2").tobytes()
    head = b"WAVEfmt " + b"".join(int(x).to_bytes(n, "little") for x, n in ((16, 4), (1, 2), (channels, 2), (8000, 4), (8000 * channels * 2, 4), (channels * 2, 2), (16, 2)))
    body = head + b"data" + len(data).to_bytes(4, "little") + data
    if m.chance(.1):
        body = body[:-1]
    return {"contents": np.asarray(b"RIFF" + len(body).to_bytes(4, "little") + body, object)}


@row("AudioSpectrogram")
def spectrogram(m):
    m.set(window_size=m.int(2, 8), stride=m.int(1, 4))
    m.flags("magnitude_squared")
    return {"input": m.array("float32", (m.int(8, 20), m.int(1, 2)), "unit")}


@row("Mfcc")
def coefficients(m):
    m.set(upper_frequency_limit=4000., lower_frequency_limit=20., filterbank_channel_count=m.int(5, 20), dct_coefficient_count=m.int(2, 5))
    return {"spectrogram": m.array("float32", (m.int(1, 2), m.int(1, 3), 65), "positive"), "sample_rate": m.ints(m.pick(16000, 8000))}
