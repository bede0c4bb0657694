package link

import (
	"encoding/binary"
	"hash/crc32"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/troupe-run/troupe/graph/status"
)

// A link's stream is that of protoactor's remote protocol: the method Receive of remote.Remoting, with one
// RemoteMessage per message, in both directions. A link adds fields that other implementations skip. The first
// of these is the head, a bytes field of fixed size, in little endian:
//
//	0  uint8  kind
//	1  uint8  flags
//	2  uint16 zero
//	4  uint32 number: how many messages came before on the stream in the same direction
//	8  uint32 length of the body in bytes
//	12 uint32 tensors that follow the body
//	16 uint32 CRC-32C of the body
//	20 uint32 CRC-32C of the head up to here
//
// The body is the rest of the RemoteMessage, except for the contents of tensors:
//
//	hello      a ConnectRequest with a wire.Hello in its field 1000
//	challenge  a ConnectResponse with a wire.Challenge in its field 1000
//	proof      a ConnectRequest with a wire.Proof in its field 1000
//	welcome    a ConnectResponse with a wire.Welcome in its field 1000
//	goodbye    a DisconnectRequest with a wire.Goodbye in its field 1000
//	beat       empty; its flags may ask for an echo, or mark it as one
//	message    a MessageBatch: of one message on a link, see outgoing, and of many on the stream of programs'
//	           actors, see mail; then the tag and length of the contents, if any
//	credits    see credits
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
	kindHello     kind = iota + 1 // first from the side that opened the link
	kindWelcome                   // first from the other one
	kindBeat                      // nothing else was sent for a while
	kindMessage                   // actors' messages
	kindGoodbye                   // last
	kindCredits                   // counts of what programs' actors have handled
	kindChallenge                 // in answer to a hello, before the welcome
	kindProof                     // in answer to a challenge
)

// flags returns the flags that a message of kind k may have. It does not apply to kindMessage.
func (k kind) flags() byte {
	switch k {
	case kindHello:
		return flagPrograms
	case kindBeat:
		return flagAsks | flagEchoes
	}
	return 0
}

// A beat may ask for an echo, or be one. Each end measures the round trip with it.
const (
	flagAsks = 1 << iota
	flagEchoes
)

// flagPrograms, in a hello, means that the stream carries the messages of programs' actors. For the flags of
// an actor's message, see outgoing.
const flagPrograms = 1

const (
	headSize    = 27        // bytes, including the tag and length of its field
	headFrom    = 3         // bytes of that tag and length
	maxControl  = 16 << 20  // bytes of the body of any message but an actor's
	maxBody     = 1<<31 - 1 // bytes of the body of actors' messages
	minForms    = 5         // minimum bytes of a tensor's description
	maxContents = 1 << 46   // bytes: beyond any memory, and far from overflow
)

// headTag is the start of a message with a head.
var headTag = func() (b [headFrom]byte) {
	copy(b[:], append(protowire.AppendTag(nil, fieldHead, protowire.BytesType), headSize-headFrom))
	return b
}()

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// put writes all of the head except what seal adds.
func (h *head) put(b []byte) {
	copy(b, headTag[:])
	b = b[headFrom:]
	b[0], b[1], b[2], b[3] = byte(h.kind), h.flags, 0, 0
	binary.LittleEndian.PutUint32(b[8:], uint32(h.body))
	binary.LittleEndian.PutUint32(b[12:], uint32(h.tensors))
	binary.LittleEndian.PutUint32(b[16:], h.sum)
}

// seal adds the number and the checksum to a head written by put.
func seal(b []byte, number uint32) {
	b = b[headFrom:]
	binary.LittleEndian.PutUint32(b[4:], number)
	binary.LittleEndian.PutUint32(b[20:], checksum(b[:20]))
}

// hasHead reports whether a message that begins with b is a link's.
func hasHead(b []byte) bool { return len(b) >= headSize && [headFrom]byte(b) == headTag }

// readHead decodes and checks the head of a message of n bytes.
func readHead(b []byte, n int, number uint32) (head, error) {
	if !hasHead(b) {
		return head{}, status.New(status.DataLoss, "A message has no head.")
	}
	b = b[headFrom:]
	if checksum(b[:20]) != binary.LittleEndian.Uint32(b[20:]) {
		return head{}, status.New(status.DataLoss, "The checksum of a message's head is wrong.")
	}
	h := head{kind: kind(b[0]), flags: b[1], number: binary.LittleEndian.Uint32(b[4:]), sum: binary.LittleEndian.Uint32(b[16:])}
	body, tensors := binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	if h.number != number {
		return head{}, status.Errorf(status.DataLoss, "Message %d came where number %d was due.", h.number, number)
	}
	limit := uint32(maxControl)
	if h.kind == kindMessage {
		limit = maxBody
	}
	if body > limit || int(body) > n-headSize || tensors > body/minForms || b[2] != 0 || b[3] != 0 {
		return head{}, status.InvalidArgumentf("A message of %d bytes claims a body of %d bytes and %d tensors.", n, body, tensors)
	}
	if h.kind != kindMessage && (int(body) != n-headSize || tensors > 0 || h.flags&^h.kind.flags() != 0) {
		return head{}, status.InvalidArgumentf("A message of kind %d and %d bytes claims a body of %d bytes and %d tensors.", h.kind, n, body, tensors)
	}
	h.body, h.tensors = int(body), int(tensors)
	return h, nil
}
