package link

import (
	"testing"
)

// countSink takes everything into the same memory.
type countSink struct {
	memory []byte
	done   chan struct{}
}

func (s *countSink) Begin(_ string, _, _ uint64, _ []byte, size int) ([]byte, func(error), error) {
	return s.memory[:size], func(error) { s.done <- struct{}{} }, nil
}

func benchmarkPush(b *testing.B, n int) {
	sink := &countSink{memory: make([]byte, n), done: make(chan struct{}, 1024)}
	_, _, p := pair(b, sink)
	data := make([]byte, n)
	b.SetBytes(int64(n))
	for b.Loop() {
		if err := p.Push(1, nil, data, nil); err != nil {
			b.Fatal(err)
		}
		<-sink.done
	}
}
