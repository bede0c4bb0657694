// Package nn implements the ops of neural networks: convolutions, pools, normalization, activations, softmax and losses, LSTM cells.
//
// Kernels expect channels in the last dimension; inLayout converts other layouts. float16 and bfloat16 are computed in float32.
package nn
