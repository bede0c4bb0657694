package member

import (
	"cmp"

	"github.com/troupe-run/troupe/graph/tensor"
)

const (
	// maxMessageMemory bounds the memory of incoming requests of a task, and that of answers that clients have not read, on any machine. It is
	// enough for several of the largest messages.
	maxMessageMemory = 8 << 30
	// requestFraction and answerFraction are the divisors that bound these as fractions of the process's memory. A feed exists twice while it
	// is copied out of its request; answers consist of tensors that exist anyway.
	requestFraction = 4
	answerFraction  = 2
)

// processMemory returns the process's memory limit, as far as it is known.
func processMemory() int64 {
	return cmp.Or(tensor.Process.Limit(), tensor.DefaultProcessMemory(), answerFraction*requestFraction*maxMessageMemory)
}

// RequestMemory bounds the memory of incoming requests.
func RequestMemory() int64 { return min(maxMessageMemory, processMemory()/requestFraction) }

// answerMemory bounds the memory of answers that clients have not read.
func answerMemory() int64 { return min(maxMessageMemory, processMemory()/answerFraction) }
