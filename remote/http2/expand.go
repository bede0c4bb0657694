package http2

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// expand decompresses a message. A client compresses what it sends if it was told to, with
// TensorFlow's RPCOptions for one.
func expand(algorithm string, message mem.BufferSlice) (mem.BufferSlice, error) {
	in := message.Reader()
	defer in.Close()
	var plain io.Reader
	var err error
	switch algorithm {
	case "gzip":
		plain, err = gzip.NewReader(in)
	case "deflate": // which is zlib's format, RFC 1950
		plain, err = zlib.NewReader(in)
	default:
		return nil, status.Errorf(codes.Unimplemented, "requests compressed with %q are not understood; deflate and gzip are", algorithm)
	}
	var out bytes.Buffer
	if err == nil {
		_, err = out.ReadFrom(io.LimitReader(plain, maxMessage+1))
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "a request cannot be decompressed: %v", err)
	}
	if out.Len() > maxMessage {
		return nil, status.Errorf(codes.ResourceExhausted, "a request is larger than %d bytes when it is decompressed", maxMessage)
	}
	return mem.BufferSlice{mem.SliceBuffer(out.Bytes())}, nil
}
