// Package storage implements the datasets that keep elements for later passes, in memory or in files: cache, save and load, snapshot. It also
// has what identifies a snapshot, the fingerprint of a dataset, and the compression of elements.
package storage
