// Package ctc implements the ops of connectionist temporal classification: the loss of unsegmented labels, and the decoders that derive
// labels from the class probabilities of each time step.
//
// Inputs are logits of shape [time, batch, classes]. The recursions are those of Alex Graves, "Supervised Sequence Labelling with Recurrent
// Neural Networks", chapter 7. Probabilities are kept as logarithms. As in TensorFlow, they are added in float32 for all types.
package ctc
