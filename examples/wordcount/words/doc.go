// Package words holds the messages of the word count's actors.
package words
