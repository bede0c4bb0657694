// Package nn holds the ops of neural networks: convolutions, pools, normalization, activations, softmax and
// losses, LSTM cells.
//
// Kernels are written for channels in the last dimension; others are brought into that order by inLayout.
// float16 and bfloat16 go by way of float32.
package nn
