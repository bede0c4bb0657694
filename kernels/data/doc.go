// Package data implements the ops of tf.data: datasets, which describe input pipelines, and the iterators that run them. It has the table of
// the family, which it puts together from those of the packages below:
//
//   - dataset has what all of them are made of: Dataset, Iterator, and how an op is parsed.
//   - source has the datasets without inputs: tensors, numbers, files.
//   - selection has those that choose, order or combine the elements of others: take, shuffle, zip.
//   - mapping has those that call functions for elements: map, filter, interleave, group, and prefetch, which works ahead as they do.
//   - batching has those that put elements together: batches and windows.
//   - storage has those that keep elements in memory or in files: cache, save, snapshot.
//   - passthrough has those that return the elements of their input unchanged: options, assertions, statistics, sharding among workers.
//   - iterator has the iterators that clients hold, and the ops that use a dataset within a step.
//
// Each of these has a table of its own, in table.go, and a source file for each kind of dataset, with the iterator beside it. They import each
// other only from the end of this list to its beginning. Tests build pipelines with package datatest.
package data
