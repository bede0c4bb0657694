package http2

// idsKept is the number of recent streams whose state a connection knows exactly.
const idsKept = 1024

// streamIDs records which of the last idsKept stream ids a client opened and which it ended. It distinguishes
// frames that were in flight when a call ended from frames that no client may send.
type streamIDs struct {
	last          uint32 // the highest stream that was opened
	opened, ended [idsKept / 64]uint64
}

// place returns the position of the bits of the stream with number n.
func place(n int64) (word int64, bit uint64) { return n / 64 % (idsKept / 64), 1 << (n % 64) }

// number returns the index of a stream among the odd ids, which are a client's.
func number(id uint32) int64 { return (int64(id) - 1) / 2 }

// open records that a stream was opened. Its id is higher than all earlier ones; skipped ids are thereby closed.
func (s *streamIDs) open(id uint32) {
	first, n := int64(0), number(id)
	if s.last > 0 {
		first = number(s.last) + 1
	}
	for i := max(first, n-idsKept+1); i <= n; i++ {
		word, bit := place(i)
		s.opened[word] &^= bit
		s.ended[word] &^= bit
	}
	word, bit := place(n)
	s.opened[word] |= bit
	s.last = id
}

// end records that the client sends no more on a stream.
func (s *streamIDs) end(id uint32) {
	if s.known(id) {
		word, bit := place(number(id))
		s.ended[word] |= bit
	}
}

// known reports whether a stream is among the last idsKept.
func (s *streamIDs) known(id uint32) bool {
	return id <= s.last && number(s.last)-number(id) < idsKept
}

// skipped reports whether a stream is known to have been closed without having been opened.
func (s *streamIDs) skipped(id uint32) bool {
	word, bit := place(number(id))
	return s.known(id) && s.opened[word]&bit == 0
}

// over reports whether the client is known to have ended a stream.
func (s *streamIDs) over(id uint32) bool {
	word, bit := place(number(id))
	return s.known(id) && s.ended[word]&bit != 0
}

// idle reports whether a stream cannot have been used yet: its id is higher than all that were opened, or not a client's.
func (s *streamIDs) idle(id uint32) bool { return id > s.last || id%2 == 0 }
