// Package ctc holds the ops of connectionist temporal classification: the loss of unsegmented labels, and the
// decoders that read labels off the probabilities of each moment.
//
// Inputs are logits of shape [time, batch, classes]. The recursions are those of Alex Graves, "Supervised Sequence
// Labelling with Recurrent Neural Networks", chapter 7; probabilities are kept as logarithms. As in TensorFlow, sums
// of them are computed in float32 for all types.
package ctc
