"""The web page of the service: HTML, made on the server of the answers that the API gives, one style sheet, one small script.

``routes.py`` has the addresses, ``templates/`` the layout, the other files what is shown: states and plots.
"""
