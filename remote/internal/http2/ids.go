package http2

// idsKept is of how many streams a connection knows for sure what became of them.
const idsKept = 1024

// streamIDs remembers which streams a client opened and which it ended, of those that it may have opened last. It tells
// frames that were on their way when a call ended from those that no client may send.
type streamIDs struct {
	last          uint32 // the highest stream that was opened
	opened, ended [idsKept / 64]uint64
}

// place is where the bits of a stream are, by its number among the odd ones.
func place(n int64) (word int64, bit uint64) { return n / 64 % (idsKept / 64), 1 << (n % 64) }

// number counts the streams of a client.
func number(id uint32) int64 { return (int64(id) - 1) / 2 }

// open notes that a stream was opened, which is beyond all before. Those that were left out are closed by it.
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

// end notes that the client sends no more on a stream.
func (s *streamIDs) end(id uint32) {
	if s.known(id) {
		word, bit := place(number(id))
		s.ended[word] |= bit
	}
}

// known tells whether a stream is one of the last.
func (s *streamIDs) known(id uint32) bool {
	return id <= s.last && number(s.last)-number(id) < idsKept
}

// skipped tells that a stream was closed without having been opened.
func (s *streamIDs) skipped(id uint32) bool {
	word, bit := place(number(id))
	return s.known(id) && s.opened[word]&bit == 0
}

// over tells that the client had said on a stream that it sends no more.
func (s *streamIDs) over(id uint32) bool {
	word, bit := place(number(id))
	return s.known(id) && s.ended[word]&bit != 0
}

// idle tells that a stream cannot have been used yet: it is beyond those that were opened, or not a client's.
func (s *streamIDs) idle(id uint32) bool { return id > s.last || id%2 == 0 }
