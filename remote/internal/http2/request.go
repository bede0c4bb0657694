package http2

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// take reads n bytes of the request; whole tells that it is complete. Where alias is set a request
// that came in one piece stays where it was read, until the next frame is.
func (s *stream) take(n int, alias bool) (whole bool, err error) {
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
			if len(s.room) == 0 {
				if err := s.grow(min(n, left)); err != nil {
					s.conn.decline(s, err)
					return false, in.skip(n)
				}
			}
			k := min(n, len(s.room))
			if err := in.readFull(s.room[:k]); err != nil {
				return false, err
			}
			s.room = s.room[k:]
			s.got += k
			n -= k
		}
	}
	return s.have == prefixSize && s.got == s.size, nil
}

// announced decides whether a request of the size that its prefix tells is taken in.
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

// grow makes room for more of the request, of which coming bytes follow in this frame. Memory is
// taken as bytes come, not as they are claimed: only the one frame that is being read may claim.
func (s *stream) grow(coming int) error {
	size := s.size - s.got
	if coming <= smallPiece && s.got < 4*smallPiece {
		size = min(size, smallPiece)
	}
	if err := s.hold(pieceSize(size)); err != nil {
		return err
	}
	b := piece(size)
	s.room = b.ReadOnlyData() // nobody else has it yet
	s.add(b)
	return nil
}

// hold counts memory of the request.
func (s *stream) hold(size int) error {
	server := s.conn.server
	if sum := server.receiving.Add(int64(size)); sum > server.maxReceiving {
		server.receiving.Add(-int64(size))
		return status.Errorf(codes.ResourceExhausted, "a request of %d bytes is refused for now: the requests that the server is receiving take %d bytes, and the limit is %d",
			s.size, sum-int64(size), server.maxReceiving)
	}
	s.held += int64(size)
	return nil
}

// keep makes a message that was not decoded outlast the reading of the next frame.
func (s *stream) keep() {
	if s.aliased && s.message != nil {
		s.message[0] = mem.SliceBuffer(s.message.Materialize())
		s.aliased = false
	}
}

// settle lets go of what the request took on its way.
func (s *stream) settle() {
	if s.held > 0 {
		s.conn.server.receiving.Add(-s.held)
		s.held = 0
	}
	s.message.Free()
	s.message, s.room, s.one[0] = nil, nil, nil
}
