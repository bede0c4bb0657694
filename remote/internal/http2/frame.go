package http2

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/http2"
)

// preface is the first thing that a client sends (RFC 9113, 3.4).
const preface = http2.ClientPreface

type frameType = http2.FrameType

// The frames of RFC 9113, 6.
const (
	frameData         = http2.FrameData
	frameHeaders      = http2.FrameHeaders
	framePriority     = http2.FramePriority
	frameReset        = http2.FrameRSTStream
	frameSettings     = http2.FrameSettings
	framePush         = http2.FramePushPromise
	framePing         = http2.FramePing
	frameGoAway       = http2.FrameGoAway
	frameWindow       = http2.FrameWindowUpdate
	frameContinuation = http2.FrameContinuation
)

const (
	flagEndStream  = 0x1 // DATA, HEADERS
	flagAck        = 0x1 // SETTINGS, PING
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// The settings of RFC 9113, 6.5.2.
const (
	settingTableSize     = http2.SettingHeaderTableSize
	settingPush          = http2.SettingEnablePush
	settingMaxStreams    = http2.SettingMaxConcurrentStreams
	settingInitialWindow = http2.SettingInitialWindowSize
	settingMaxFrame      = http2.SettingMaxFrameSize
	settingMaxHeaderList = http2.SettingMaxHeaderListSize
	// settingPings is our own: the number of seconds after which the other end may ping a silent connection. Others ignore it.
	settingPings http2.SettingID = 0x7470
)

// errorCode is a code of RFC 9113, 7.
type errorCode = http2.ErrCode

const (
	codeNone         = http2.ErrCodeNo
	codeProtocol     = http2.ErrCodeProtocol
	codeFlowControl  = http2.ErrCodeFlowControl
	codeStreamClosed = http2.ErrCodeStreamClosed
	codeFrameSize    = http2.ErrCodeFrameSize
	codeRefused      = http2.ErrCodeRefusedStream
	codeCancel       = http2.ErrCodeCancel
	codeCompression  = http2.ErrCodeCompression
	codeCalm         = http2.ErrCodeEnhanceYourCalm
)

// connError ends a connection. The other end receives the code in a GOAWAY.
type connError struct {
	code errorCode
	why  string
}

func (e *connError) Error() string { return "http2: " + e.why }

func broken(code errorCode, format string, args ...any) error {
	return &connError{code, fmt.Sprintf(format, args...)}
}

// streamError ends a stream. The other end receives the code in a RST_STREAM, and the connection continues. A reader that
// only checks for the wrapped connError ends the connection instead, which RFC 9113, 5.4.2 allows.
type streamError struct {
	connError
	stream uint32
}

func (e *streamError) Unwrap() error { return &e.connError }

func streamBroken(stream uint32, code errorCode, format string, args ...any) error {
	return &streamError{connError{code, fmt.Sprintf(format, args...)}, stream}
}

const (
	headerSize    = 9
	defaultWindow = 65535
	defaultFrame  = 16 << 10
	maxWindow     = 1<<31 - 1
	largestFrame  = 1<<24 - 1
	prefixSize    = 5 // of a gRPC message: a flag and the length
	prioritySize  = 5 // of a stream's priority in a frame
)

// header is a frame's head.
type header struct {
	length int
	kind   frameType
	flags  uint8
	stream uint32
}

func parseHeader(b []byte) header {
	_ = b[8]
	return header{length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]), kind: frameType(b[3]), flags: b[4],
		stream: binary.BigEndian.Uint32(b[5:]) & maxWindow}
}

func appendHeader(b []byte, length int, kind frameType, flags uint8, stream uint32) []byte {
	return append(b, byte(length>>16), byte(length>>8), byte(length), byte(kind), flags,
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

type setting struct {
	id    http2.SettingID
	value uint32
}

func appendSettings(b []byte, settings ...setting) []byte {
	b = appendHeader(b, 6*len(settings), frameSettings, 0, 0)
	for _, s := range settings {
		b = binary.BigEndian.AppendUint16(b, uint16(s.id))
		b = binary.BigEndian.AppendUint32(b, s.value)
	}
	return b
}

func appendWindow(b []byte, stream uint32, n int) []byte {
	b = appendHeader(b, 4, frameWindow, 0, stream)
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

func appendReset(b []byte, stream uint32, code errorCode) []byte {
	b = appendHeader(b, 4, frameReset, 0, stream)
	return binary.BigEndian.AppendUint32(b, uint32(code))
}

func appendGoAway(b []byte, last uint32, code errorCode, why string) []byte {
	b = appendHeader(b, 8+len(why), frameGoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(b, last)
	b = binary.BigEndian.AppendUint32(b, uint32(code))
	return append(b, why...)
}

// appendPrefix appends the head of a gRPC message that is not compressed.
func appendPrefix(b []byte, length int) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0), uint32(length))
}
