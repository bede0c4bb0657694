package remote

import (
	"cmp"

	"github.com/troupe-run/troupe/graph/tensor"
)

const (
	// maxMessageMemory bounds what requests on their way to a task may take, and what answers that clients do not read
	// keep, on any machine: it is room for several of the largest messages.
	maxMessageMemory = 8 << 30
	// requestFraction and answerFraction are which parts of the process's memory they may take at most. A feed is there
	// twice while it is copied out of its request; answers are made of tensors that are there anyway.
	requestFraction = 4
	answerFraction  = 2
)

// processMemory is what the process may take, as far as is known.
func processMemory() int64 {
	return cmp.Or(tensor.Process.Limit(), tensor.DefaultProcessMemory(), answerFraction*requestFraction*maxMessageMemory)
}

// requestMemory bounds the requests that are on their way.
func requestMemory() int64 { return min(maxMessageMemory, processMemory()/requestFraction) }

// answerMemory bounds the answers that clients do not read.
func answerMemory() int64 { return min(maxMessageMemory, processMemory()/answerFraction) }
