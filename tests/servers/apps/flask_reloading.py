"""The Flask site with the reloader that looks at every file each second."""

import sys

from tests.servers.apps.flask_site import app

if __name__ == "__main__":
    app.run(port=int(sys.argv[1]), debug=True, reloader_type="stat")
