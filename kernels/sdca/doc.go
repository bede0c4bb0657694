// Package sdca holds the ops of stochastic dual coordinate ascent, which trains linear models on batches of examples with
// L1 and L2 regularization. Each example has a dual variable; a step moves those of a batch, one after the other, and sums
// up how the weights follow.
package sdca
