package dataset

import (
	"sync"
)

// This file decides how much work to spend on finding the number of a dataset's elements.

// Query requests a cardinality that may take work. A nil query requests only what is known without work.
type Query struct {
	// Call runs functions, where they are needed.
	Call *Call
	// Final reports whether to treat the dataset as TensorFlow's optimizer leaves it: without maps by functions that return their
	// arguments.
	Final bool

	// found caches results, since a dataset may be the input of several others.
	mu    sync.Mutex
	found map[*Dataset]int64
}

// of returns the cardinality of a dataset. It asks the dataset's kind once per query.
func (q *Query) of(d *Dataset) int64 {
	q.mu.Lock()
	n, ok := q.found[d]
	q.mu.Unlock()
	if ok {
		return n
	}
	n = d.Kind.Cardinality(q)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.found == nil {
		q.found = map[*Dataset]int64{}
	}
	q.found[d] = n
	return n
}

// Indexing returns the query that decides whether an index is in range.
func (c *Call) Indexing() *Query {
	c.access.mu.Lock()
	defer c.access.mu.Unlock()
	if c.access.Call == nil {
		c.access.Call, c.access.Final = c, true
	}
	return &c.access
}
