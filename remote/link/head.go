package link

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/troupe-run/troupe/graph/status"
)

// A link's stream is a sequence of messages, both ways. Each begins with a head of fixed size,
// in little endian:
//
//	0  uint8  kind
//	1  uint8  flags of an actor's message
//	2  uint16 zero
//	4  uint32 number: how many messages came before on the stream, the same way
//	8  uint32 length of the body in bytes
//	12 uint32 tensors that follow the body
//	16 uint32 CRC-32C of the body
//	20 uint32 CRC-32C of the head up to here
//
// The body of a hello, a welcome and a goodbye is the protocol buffer of that name; a heartbeat
// has none. For the body of an actor's message see outgoing.
type head struct {
	kind    kind
	flags   byte
	number  uint32
	body    int
	tensors int
	sum     uint32
}

type kind uint8

const (
	kindHello   kind = iota + 1 // first from the side that opened the link
	kindWelcome                 // first from the other one
	kindBeat                    // nothing else was sent for a while
	kindMessage                 // an actor's
	kindGoodbye                 // last
)

const (
	headSize    = 24
	maxSpeech   = 16 << 20  // bytes of the body of a hello, welcome or goodbye
	maxBody     = 1<<31 - 1 // bytes of the body of an actor's message
	minForms    = 5         // bytes that the description of a tensor takes at least
	maxContents = 1 << 46   // bytes: beyond any memory, and far from overflow
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// put writes all of the head but what seal adds.
func (h *head) put(b []byte) {
	b[0], b[1], b[2], b[3] = byte(h.kind), h.flags, 0, 0
	binary.LittleEndian.PutUint32(b[8:], uint32(h.body))
	binary.LittleEndian.PutUint32(b[12:], uint32(h.tensors))
	binary.LittleEndian.PutUint32(b[16:], h.sum)
}

// seal numbers a head that was put and adds its checksum.
func seal(b []byte, number uint32) {
	binary.LittleEndian.PutUint32(b[4:], number)
	binary.LittleEndian.PutUint32(b[20:], checksum(b[:20]))
}

// readHead checks a head of a message of n bytes.
func readHead(b []byte, n int, number uint32) (head, error) {
	if checksum(b[:20]) != binary.LittleEndian.Uint32(b[20:]) {
		return head{}, status.New(status.DataLoss, "The checksum of a message's head is wrong.")
	}
	h := head{kind: kind(b[0]), flags: b[1], number: binary.LittleEndian.Uint32(b[4:]), sum: binary.LittleEndian.Uint32(b[16:])}
	body, tensors := binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	if h.number != number {
		return head{}, status.Errorf(status.DataLoss, "Message %d came where number %d was due.", h.number, number)
	}
	limit := uint32(maxSpeech)
	if h.kind == kindMessage {
		limit = maxBody
	}
	if body > limit || int(body) > n-headSize || tensors > body/minForms || b[2] != 0 || b[3] != 0 {
		return head{}, status.InvalidArgumentf("A message of %d bytes claims a body of %d bytes and %d tensors.", n, body, tensors)
	}
	if h.kind != kindMessage && (int(body) != n-headSize || tensors > 0 || h.flags != 0) {
		return head{}, status.InvalidArgumentf("A message of kind %d and %d bytes claims a body of %d bytes and %d tensors.", h.kind, n, body, tensors)
	}
	h.body, h.tensors = int(body), int(tensors)
	return h, nil
}
