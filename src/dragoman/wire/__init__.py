"""Reading and writing bytes without meaning: JSON, server-sent events, data URLs, and whatever else any protocol
package needs. Member names of protocols do not belong here."""
