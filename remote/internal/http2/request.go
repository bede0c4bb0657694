package http2

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// receive reads n bytes of the request; whole reports that it is complete. If alias is set, a request
// that came in one piece stays in the input buffer, until the next frame is read.
func (s *stream) receive(n int, alias bool) (whole bool, err error) {
	in := &s.conn.in
	for n > 0 {
		if s.have < prefixSize {
			k := min(n, prefixSize-s.have)
			if err := in.fill(k); err != nil {
				return false, err
			}
			s.have += copy(s.prefix[s.have:], in.next(k))
			n -= k
			if s.have == prefixSize {
				if err := s.announced(); err != nil {
					s.conn.decline(s, err)
					return false, in.skip(n)
				}
			}
			continue
		}
		left := s.size - s.got
		switch {
		case left == 0:
			s.conn.decline(s, status.Error(codes.Internal, "the call has more than one request"))
			return false, in.skip(n)
		case alias && s.got == 0 && n == left && n <= inputSize:
			if err := in.fill(n); err != nil {
				return false, err
			}
			s.add(mem.SliceBuffer(in.next(n)))
			s.got, n, s.aliased = s.size, 0, true
		default:
			if s.empty == 0 {
				if err := s.grow(min(n, left)); err != nil {
					s.conn.decline(s, err)
					return false, in.skip(n)
				}
			}
			k, err := s.fill(min(n, s.empty))
			n -= k
			if err == nil {
				continue
			}
			if _, refused := status.FromError(err); !refused {
				return false, err
			}
			s.conn.decline(s, err)
			return false, in.skip(n)
		}
	}
	if whole = s.have == prefixSize && s.got == s.size; whole && s.charged && s.of == nil {
		if err := s.conn.server.receiving.complete(s); err != nil {
			s.conn.decline(s, err)
			return false, nil
		}
	}
	return whole, nil
}

// fill reads n bytes into the request's memory. It reads fewer if the request is evicted, and then returns a status error.
func (s *stream) fill(n int) (read int, err error) {
	receiving := &s.conn.server.receiving
	room, err := receiving.beginFill(s, n)
	if err != nil {
		return 0, err
	}
	for read < n && err == nil {
		var k int
		k, err = s.conn.in.read(room[read:])
		if read += k; k == 0 && err == nil { // the reader was interrupted
			if receiving.evictionError(s) != nil {
				break
			}
		}
	}
	if read == n {
		err = nil // the next read returns it again
	}
	lost := receiving.endFill(s, read)
	if err != nil {
		return read, err
	}
	s.empty -= read
	s.got += read
	return read, lost
}

// announced checks the size in a request's prefix.
func (s *stream) announced() error {
	s.compressed = s.prefix[0]&1 != 0
	s.size = length(s.prefix[:])
	if s.size > maxMessage {
		return status.Errorf(codes.ResourceExhausted, "a request of %d bytes is too large: the limit is %d. Feed large values in several steps, in parts or through a queue, or restore them from a checkpoint.", s.size, maxMessage)
	}
	return nil
}

func (s *stream) add(b mem.Buffer) {
	if s.message == nil {
		s.message = s.one[:0]
	}
	s.message = append(s.message, b)
}

// grow allocates memory for more of the request. coming bytes follow in this frame. Memory grows with the bytes that arrive, not
// with the announced size: beside its first piece, a request takes at most twice the memory of what has arrived.
func (s *stream) grow(coming int) error {
	first := smallPiece
	if coming > smallPiece {
		first = firstPiece
	}
	size := min(s.size-s.got, max(s.got, first))
	if err := s.reserve(pieceSize(size), true); err != nil {
		return err
	}
	b := piece(size)
	s.empty = b.Len()
	return s.conn.server.receiving.attach(s, b)
}

// reserve counts memory for the request.
func (s *stream) reserve(size int, incomplete bool) error {
	s.charged = true
	return s.conn.server.receiving.reserve(s.conn, s, int64(size), incomplete)
}

// keep copies a message that was not decoded out of the input buffer, so that it survives the next frame.
func (s *stream) keep() {
	if s.aliased && s.message != nil {
		s.message[0] = mem.SliceBuffer(s.message.Materialize())
		s.aliased = false
	}
}

// releaseRequest releases the request's message and the memory counted for it.
func (s *stream) releaseRequest() {
	if s.charged {
		s.conn.server.receiving.settle(s)
		return
	}
	s.forgetMessage()
}

func (s *stream) forgetMessage() {
	s.message.Free()
	s.message, s.room, s.one[0] = nil, nil, nil
}
