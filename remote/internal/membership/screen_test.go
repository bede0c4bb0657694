package membership

import (
	"bytes"
	"compress/lzw"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/iotest"
)

// header is the header of a message about the given number of nodes.
func header(nodes uint32, state uint32) []byte {
	b := []byte{pushPullMsg, 0x83}
	for _, f := range []struct {
		name  string
		value uint32
	}{{"Nodes", nodes}, {"UserStateLen", state}} {
		b = append(append(b, 0xa0|byte(len(f.name))), f.name...)
		b = binary.BigEndian.AppendUint32(append(b, 0xce), f.value)
	}
	return append(append(b, 0xa4), "Join\xc2"...)
}

// TestScreenedStreams checks which messages memberlist gets from unauthenticated peers, and that others end before they use memory.
func TestScreenedStreams(t *testing.T) {
	var packed bytes.Buffer
	z := lzw.NewWriter(&packed, lzw.LSB, 8)
	if _, err := z.Write(append(header(1<<20, 0), make([]byte, 1<<20)...)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	node := []byte("\x84\xa4Name\xa1a\xa4Addr\xc4\x04\x7f\x00\x00\x01\xa4Port\xcd\x08\xae\xa3Vsn\xa6\x01\x05\x02\x00\x00\x00")
	states := func(n int, state string) []byte {
		b := header(uint32(n), uint32(len(state)))
		for range n {
			b = append(b, node...)
		}
		return append(b, state...)
	}
	for name, c := range map[string]struct {
		text []byte
		want bool
	}{
		"a ping":                          {[]byte("\x00\x82\xa5SeqNo\x01\xa4Node\xa1a"), true},
		"an answer":                       {[]byte("\x02\x82\xa5SeqNo\xce\x00\x00\x00\x01\xa7Payload\xc0"), true},
		"an error":                        {[]byte("\x0d\x81\xa5Error\xda\x00\x03why"), true},
		"three nodes":                     {states(3, ""), true},
		"nodes and a state":               {states(2, "state"), true},
		"no node":                         {states(0, ""), true},
		"compressed":                      {append([]byte{compressMsg}, packed.Bytes()...), false},
		"encrypted":                       {[]byte{encryptMsg, 0, 0, 0, 9}, false},
		"with a label":                    {[]byte{244, 1, 'a', pingMsg, 0x80}, false},
		"a message of a program":          {[]byte{8, 0x81}, false},
		"a million nodes":                 {header(1<<20, 0), false},
		"a million nodes of nothing":      {append(header(1<<20, 0), bytes.Repeat([]byte{0x80}, 1<<20)...), false},
		"a state of 4 GiB":                {header(0, 1<<32-1), false},
		"a string of 4 GiB":               {[]byte("\x00\xdb\xff\xff\xff\xff"), false},
		"a list of 4 billion":             {[]byte("\x00\xdd\xff\xff\xff\xff\x00"), false},
		"lists in lists":                  {append([]byte{pingMsg}, bytes.Repeat([]byte{0x91}, 1<<20)...), false},
		"maps of maps":                    {append([]byte{pingMsg}, bytes.Repeat([]byte{0xdf, 0, 0xff, 0xff, 0xff}, 1<<20)...), false},
		"a header that is none":           {[]byte{pushPullMsg, 0x93, 1, 0, 0xc2}, false},
		"a header of other fields":        {[]byte("\x06\x81\xa1x\x01"), false},
		"a number of nodes below nothing": {[]byte("\x06\x81\xa5Nodes\xd3\xff\xff\xff\xff\xff\xff\xff\xff"), false},
		"too little":                      {states(3, "state")[:60], false},
		"nothing":                         {nil, false},
	} {
		const nodes = 100
		taken := 0
		take := func(n int) error { taken += n; return nil }
		got, err := readMessage(iotest.HalfReader(bytes.NewReader(c.text)), nodes, take)
		if (err == nil) != c.want || c.want && !bytes.Equal(got, c.text) {
			t.Errorf("%s: %v", name, err)
		}
		if taken > 4*nodes*nodeBytes {
			t.Errorf("%s: %d bytes were taken", name, taken)
		}
	}
}

// TestStreamsTakeFixedMemory checks that many streams of large, unfinished messages use no more than a fixed amount of memory, and that a
// message that arrives then is read.
func TestStreamsTakeFixedMemory(t *testing.T) {
	s := &screen{nodes: maxNodes}
	text := append(append(header(maxNodes, 0), 0x81, 0xa1, 'a', 0xc6), 0, 0x20, 0, 0)
	text = append(text, make([]byte, 1<<20)...)
	done := make(chan error, 100)
	var ends []net.Conn
	for range 100 {
		near, far := net.Pipe()
		ends = append(ends, near)
		go func() { _, _ = near.Write(text) }() // which may be refused
		c := s.admit(far)                       // before the last one, since the oldest streams are closed first
		go func() {
			_, err := io.Copy(io.Discard, c)
			done <- err
		}()
	}
	last, far := net.Pipe()
	ends = append(ends, last)
	ping := []byte("\x00\x82\xa5SeqNo\x01\xa4Node\xa1a")
	go func() { _, _ = last.Write(ping) }()
	got := make([]byte, len(ping))
	c := s.admit(far)
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, ping) {
		t.Errorf("a ping beside them: %q, %v", got, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	s.mu.Lock()
	if s.held > maxHeld || len(s.open) > maxScreened {
		t.Errorf("%d streams hold %d bytes", len(s.open), s.held)
	}
	s.mu.Unlock()
	for _, e := range ends {
		e.Close()
	}
	for range 100 {
		<-done
	}
}

// TestPlausiblePackets checks which packets memberlist gets.
func TestPlausiblePackets(t *testing.T) {
	compound := func(parts ...string) string {
		b := []byte{compoundMsg, byte(len(parts))}
		for _, p := range parts {
			b = binary.BigEndian.AppendUint16(b, uint16(len(p)))
		}
		for _, p := range parts {
			b = append(b, p...)
		}
		return string(b)
	}
	for text, want := range map[string]bool{
		"\x00\x80": true, "\x04\x81": true, compound("\x00\x80", "\x04\x81"): true, "\x0c\x00\x00\x00\x00\x00\x80": true, compound(): true,
		"": false, "\x09\x80": false, "\x0a": false, "\x0c\x00\x00\x00\x00\x09": false, compound("\x00\x80", "\x09\x81"): false,
		compound(compound("\x00")): false, "\x07": false, "\x07\xff\x00\x00": false, "\x07\x01\x00\x09\x00": false,
	} {
		if got := plausible([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
