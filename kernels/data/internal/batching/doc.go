// Package batching implements the datasets that put several elements of their input together, as tensors (batches) or as datasets
// (windows), and those that take batches apart.
package batching
