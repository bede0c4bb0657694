package link

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
)

// The field numbers of protoactor's remote protocol (its remote.proto and actor.proto). This package's own
// fields are numbered from 1000 on, which other implementations skip.
const (
	// Of a RemoteMessage.
	fieldBatch    = 1
	fieldConnect  = 2
	fieldWelcome  = 3
	fieldLeave    = 4
	fieldHead     = 1000 // first: see head
	fieldContents = 1001 // last: the contents of the tensors
	fieldCredits  = 1002 // see credits

	// Of a ConnectRequest, a ConnectResponse and a DisconnectRequest: a link's control message.
	fieldSpeech = 1000
	// Of a ConnectRequest.
	fieldClient = 1
	fieldServer = 2
	// Of a ServerConnection.
	fieldSystem  = 1
	fieldAddress = 2
	// Of a ConnectResponse.
	fieldMember  = 2
	fieldBlocked = 3

	// Of a MessageBatch.
	fieldTypes     = 1
	fieldTargets   = 2
	fieldEnvelopes = 3
	fieldSenders   = 4
	fieldFirst     = 1000 // the number of the first of its messages

	// Of a MessageEnvelope.
	fieldType          = 1
	fieldData          = 2
	fieldTarget        = 3
	fieldSender        = 4
	fieldSerializer    = 5
	fieldHeader        = 6
	fieldTargetRequest = 7
	fieldSenderRequest = 8
	fieldTensors       = 1000 // the descriptions of the tensors: see outgoing

	// Of a PID.
	fieldPIDAddress = 1
	fieldPIDName    = 2
	fieldPIDRequest = 3
)

// batch is a received MessageBatch. Its parts refer to the memory that it was read from.
type batch struct {
	types     [][]byte
	targets   []address
	senders   []address
	envelopes [][]byte
	first     uint64
}

// address is a PID in its encoded parts.
type address struct {
	host, name []byte
	request    uint32
}

var errBatch = status.InvalidArgumentf("A batch of actors' messages is malformed.")

// read decodes a MessageBatch into b, whose memory it reuses.
func (b *batch) read(data []byte) error {
	b.types, b.targets, b.senders, b.envelopes, b.first = b.types[:0], b.targets[:0], b.senders[:0], b.envelopes[:0], 0
	for len(data) > 0 {
		number, value, v, rest, ok := nextField(data)
		if !ok {
			return errBatch
		}
		data = rest
		switch number {
		case fieldTypes:
			b.types = append(b.types, value)
		case fieldTargets, fieldSenders:
			a, ok := readAddress(value)
			if !ok {
				return errBatch
			}
			if number == fieldTargets {
				b.targets = append(b.targets, a)
			} else {
				b.senders = append(b.senders, a)
			}
		case fieldEnvelopes:
			b.envelopes = append(b.envelopes, value)
		case fieldFirst:
			b.first = v
		}
	}
	return nil
}

// nextField reads one field: the value of a length-delimited field, or the number of a varint.
func nextField(data []byte) (number protowire.Number, value []byte, v uint64, rest []byte, ok bool) {
	number, kind, n := protowire.ConsumeTag(data)
	if n < 0 {
		return 0, nil, 0, nil, false
	}
	data = data[n:]
	switch kind {
	case protowire.BytesType:
		value, n = protowire.ConsumeBytes(data)
	case protowire.VarintType:
		v, n = protowire.ConsumeVarint(data)
	default:
		n = protowire.ConsumeFieldValue(number, kind, data)
	}
	if n < 0 {
		return 0, nil, 0, nil, false
	}
	return number, value, v, data[n:], true
}

func readAddress(data []byte) (a address, ok bool) {
	for len(data) > 0 {
		number, value, v, rest, ok := nextField(data)
		if !ok {
			return a, false
		}
		data = rest
		switch number {
		case fieldPIDAddress:
			a.host = value
		case fieldPIDName:
			a.name = value
		case fieldPIDRequest:
			a.request = uint32(v)
		}
	}
	return a, true
}

// envelope is a MessageEnvelope of a received batch.
type envelope struct {
	kind       []byte // the message's full type name
	data       []byte
	target     address
	sender     address // without a name: no sender
	serializer int
	header     []byte // a MessageHeader
	tensors    []byte
}

// read decodes one of a batch's envelopes.
func (e *envelope) read(b *batch, data []byte) error {
	*e = envelope{}
	var kind, target, sender, targetRequest, senderRequest uint64
	for len(data) > 0 {
		number, value, v, rest, ok := nextField(data)
		if !ok {
			return errBatch
		}
		data = rest
		switch number {
		case fieldType:
			kind = v
		case fieldData:
			e.data = value
		case fieldTarget:
			target = v
		case fieldSender:
			sender = v
		case fieldSerializer:
			e.serializer = int(v)
		case fieldHeader:
			e.header = value
		case fieldTargetRequest:
			targetRequest = v
		case fieldSenderRequest:
			senderRequest = v
		case fieldTensors:
			e.tensors = value
		}
	}
	if kind >= uint64(len(b.types)) || target >= uint64(len(b.targets)) || sender > uint64(len(b.senders)) ||
		targetRequest > 1<<32-1 || senderRequest > 1<<32-1 {
		return errBatch
	}
	e.kind, e.target = b.types[kind], b.targets[target]
	if targetRequest != 0 {
		e.target.request = uint32(targetRequest)
	}
	if sender > 0 {
		e.sender = b.senders[sender-1]
		if senderRequest != 0 {
			e.sender.request = uint32(senderRequest)
		}
	}
	return nil
}

// readHeader decodes the entries of a MessageHeader.
func readHeader(data []byte) (map[string]string, error) {
	if len(data) == 0 {
		return nil, nil
	}
	header := map[string]string{}
	for len(data) > 0 {
		number, entry, _, rest, ok := nextField(data)
		if !ok {
			return nil, errBatch
		}
		data = rest
		if number != 1 {
			continue
		}
		var key, value string
		for len(entry) > 0 {
			number, part, _, rest, ok := nextField(entry)
			if !ok {
				return nil, errBatch
			}
			entry = rest
			switch number {
			case 1:
				key = string(part)
			case 2:
				value = string(part)
			}
		}
		header[key] = value
	}
	return header, nil
}

// The entries of the MessageHeader of a message to a program's actor: the trace that it belongs to (W3C Trace Context), and the client that it comes from.
const (
	parentEntry = "traceparent"
	stateEntry  = "tracestate"
	clientEntry = "troupe-client"
)

// maxLetterHeader bounds the bytes of such a header: a tracestate may have 2 KiB. What is too long is left out, and a longer header is not read.
const maxLetterHeader = 3 << 10

// headerOf returns the MessageHeader of a message to a program's actor; nil if it has nothing to say.
func headerOf(m *cast.Letter) []byte {
	if m.Trace == nil && m.Client == "" {
		return nil
	}
	entries := map[string]string{}
	add := func(name, value string) {
		if value != "" {
			entries[name] = value
		}
	}
	add(clientEntry, m.Client)
	if m.Trace != nil {
		add(parentEntry, m.Trace.Parent)
		add(stateEntry, m.Trace.State)
	}
	for _, leave := range []string{stateEntry, parentEntry} { // first what matters least
		if b := writeHeader(entries); len(b) <= maxLetterHeader {
			return b
		}
		delete(entries, leave)
	}
	return writeHeader(entries)
}

// readLetterHeader returns the trace that such a header names, nil if it names none, and the client.
func readLetterHeader(header []byte) (t *cast.Trace, client string, err error) {
	if len(header) == 0 || len(header) > maxLetterHeader {
		return nil, "", nil
	}
	entries, err := readHeader(header)
	if err != nil {
		return nil, "", err
	}
	if parent := entries[parentEntry]; parent != "" {
		t = &cast.Trace{Parent: parent, State: entries[stateEntry]}
	}
	return t, entries[clientEntry], nil
}

// sizeBytesField returns the size of a field with bytes, whose tag is one byte; 0 if it is empty and left out.
func sizeBytesField(value []byte) int {
	if len(value) == 0 {
		return 0
	}
	return 1 + protowire.SizeBytes(len(value))
}

func sizeAddress(host, name string) int {
	return 2 + protowire.SizeBytes(len(host)) + protowire.SizeBytes(len(name)) // tags of one byte
}

func appendAddress(b []byte, field protowire.Number, host, name string) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(sizeAddress(host, name)))
	b = protowire.AppendTag(b, fieldPIDAddress, protowire.BytesType)
	b = protowire.AppendString(b, host)
	b = protowire.AppendTag(b, fieldPIDName, protowire.BytesType)
	return protowire.AppendString(b, name)
}

func appendBytesField(b []byte, field protowire.Number, value []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, value)
}

func appendStringField(b []byte, field protowire.Number, value string) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, value)
}

// appendNumberField appends a number unless it is zero.
func appendNumberField(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, v)
}

// writeHeader encodes entries as a MessageHeader.
func writeHeader(entries map[string]string) []byte {
	var b, entry []byte
	for key, value := range entries {
		entry = appendStringField(entry[:0], 1, key)
		entry = appendStringField(entry, 2, value)
		b = appendBytesField(b, 1, entry)
	}
	return b
}
