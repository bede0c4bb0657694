// Package nn holds the ops of neural networks: convolutions, pools, normalization, activations, softmax and
// losses, LSTM cells.
//
// Kernels are written for channels in the last dimension; inLayout brings others into that order. float16 and
// bfloat16 are computed in float32.
package nn
