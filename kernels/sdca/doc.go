// Package sdca implements the ops of stochastic dual coordinate ascent, which trains linear models on batches of examples with L1 and L2
// regularization. Each example has a dual variable. A step updates those of a batch, one by one, and accumulates the resulting changes of
// the weights.
package sdca
