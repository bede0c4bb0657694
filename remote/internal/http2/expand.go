package http2

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// expand decompresses a message. Clients compress messages if configured to, for example with
// TensorFlow's RPCOptions. expand calls hold before it allocates more memory.
func expand(algorithm string, message mem.BufferSlice, hold func(bytes int) error) (plain mem.BufferSlice, err error) {
	in := message.Reader()
	defer func() {
		_ = in.Close() // does not fail
		if err != nil {
			plain.Free()
			plain = nil
		}
	}()
	var out io.Reader
	switch algorithm {
	case "gzip":
		out, err = gzip.NewReader(in)
	case "deflate": // zlib's format, RFC 1950
		out, err = zlib.NewReader(in)
	default:
		return nil, status.Errorf(codes.Unimplemented, "compression with %q is not supported; deflate and gzip are", algorithm)
	}
	var room []byte
	for size := 0; err == nil; {
		if len(room) == 0 {
			if err := hold(chunkSize); err != nil {
				return plain, err
			}
			b := piece(chunkSize)
			room = b.ReadOnlyData() // not shared yet
			plain = append(plain, b)
		}
		var n int
		n, err = out.Read(room)
		room = room[n:]
		if size += n; size > maxMessage {
			return plain, status.Errorf(codes.ResourceExhausted, "a request is larger than %d bytes when it is decompressed", maxMessage)
		}
	}
	if !errors.Is(err, io.EOF) {
		return plain, status.Errorf(codes.Internal, "a request cannot be decompressed: %v", err)
	}
	if n := len(plain); n > 0 {
		last := plain[n-1]
		plain[n-1] = last.Slice(0, chunkSize-len(room))
		last.Free()
	}
	return plain, nil
}
